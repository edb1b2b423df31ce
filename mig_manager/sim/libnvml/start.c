/*
 * Starting Python inside a program that knows nothing of it, and calling it from any thread.
 *
 * The first nvmlInit starts it; what fails there is NVML_ERROR_DRIVER_NOT_LOADED and one line on standard error, so that
 * the program stops properly. Nothing is linked: functions of libpython are looked up when they are needed, in the
 * process first, because a program may be a Python itself, of whichever version.
 *
 * Included by the generated source, which defines PYTHON_LIBRARY, PYTHON_MINOR, OLDEST_MINOR, python_program and
 * search_path.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <wchar.h>

#define EXPORTED __attribute__((visibility("default")))

enum { SUCCESS = 0, UNINITIALIZED = 1, DRIVER_NOT_LOADED = 9, UNKNOWN = 999 };

typedef struct object object; /* PyObject, of which only pointers are used */

/* Functions of Python's stable interface, which are the same in every version, and the two that only starting needs. */
static struct {
    int (*Py_IsInitialized)(void);
    const char *(*Py_GetVersion)(void);
    int (*PyGILState_Ensure)(void);
    void (*PyGILState_Release)(int);
    object *(*PyImport_ImportModule)(const char *);
    object *(*PyObject_GetAttrString)(object *, const char *);
    object *(*PyObject_CallFunction)(object *, const char *, ...);
    object *(*PySys_GetObject)(const char *);
    object *(*PyUnicode_DecodeFSDefault)(const char *);
    int (*PySequence_Contains)(object *, object *);
    int (*PyList_Append)(object *, object *);
    long (*PyLong_AsLong)(object *);
    void (*PyErr_Print)(void);
    void (*Py_DecRef)(object *);
} python;

static pthread_mutex_t starting = PTHREAD_MUTEX_INITIALIZER;
static void *interpreter; /* where the functions are looked up; set when all were found and Python runs */
static object *entry;     /* mig_manager.sim.libnvml.entry.call; set with the interpreter's lock held */

static int refuse(const char *problem, const char *detail)
{
    fprintf(stderr, "simulated libnvidia-ml.so.1: %s%s\n", problem, detail);
    return DRIVER_NOT_LOADED;
}

static int look_up(void *where, const char *name, void *target)
{
    *(void **)target = dlsym(where, name);
    return *(void **)target ? SUCCESS : refuse("the Python in this program lacks ", name);
}

static int look_up_all(void *where)
{
#define LOOK_UP(name) look_up(where, #name, &python.name)
    return LOOK_UP(Py_IsInitialized) || LOOK_UP(Py_GetVersion) || LOOK_UP(PyGILState_Ensure) ||
           LOOK_UP(PyGILState_Release) || LOOK_UP(PyImport_ImportModule) || LOOK_UP(PyObject_GetAttrString) ||
           LOOK_UP(PyObject_CallFunction) || LOOK_UP(PySys_GetObject) || LOOK_UP(PyUnicode_DecodeFSDefault) ||
           LOOK_UP(PySequence_Contains) || LOOK_UP(PyList_Append) || LOOK_UP(PyLong_AsLong) || LOOK_UP(PyErr_Print) ||
           LOOK_UP(Py_DecRef)
               ? DRIVER_NOT_LOADED
               : SUCCESS;
#undef LOOK_UP
}

static int minor_version(void)
{
    int major = 0, minor = 0;
    return sscanf(python.Py_GetVersion(), "%d.%d", &major, &minor) == 2 && major == 3 ? minor : 0;
}

/* Start the interpreter without a look at the environment, and let go of its lock. */
static int start_python(void *where)
{
    void (*set_program_name)(const wchar_t *), (*initialize)(int);
    void *(*save_thread)(void);
    int *flag;

    if (minor_version() != PYTHON_MINOR)
        return refuse("this program is linked to another Python than the library was built with, and has not started it: ",
                      python.Py_GetVersion());
    if (access(PYTHON_PROGRAM, X_OK))
        return refuse("the Python it was built with is gone, build it again (mig-manager sim library): ", PYTHON_PROGRAM);
    if (look_up(where, "Py_SetProgramName", &set_program_name) || look_up(where, "Py_InitializeEx", &initialize) ||
        look_up(where, "PyEval_SaveThread", &save_thread))
        return DRIVER_NOT_LOADED;
    if ((flag = dlsym(where, "Py_IgnoreEnvironmentFlag")))
        *flag = 1; /* PYTHONHOME and PYTHONPATH are meant for other programs */
    if ((flag = dlsym(where, "Py_NoUserSiteDirectory")))
        *flag = 1;
    set_program_name(python_program); /* by which Python finds the environment that mig-manager is installed in */
    initialize(0);                    /* 0: signals stay as the program has them */
    save_thread();
    return SUCCESS;
}

/* Python runs when this returns SUCCESS. */
static int have_python(void)
{
    int status;
    void *where = RTLD_DEFAULT;

    if (interpreter)
        return SUCCESS;
    if (!dlsym(RTLD_DEFAULT, "Py_IsInitialized")) {
        /* Global, because Python's own modules find its functions nowhere else. */
        where = dlopen(PYTHON_LIBRARY, RTLD_NOW | RTLD_GLOBAL);
        if (!where)
            return refuse("loading Python: ", dlerror());
    }
    if ((status = look_up_all(where)))
        return status;
    if (!python.Py_IsInitialized()) {
        if ((status = start_python(where)))
            return status;
    } else if (minor_version() < OLDEST_MINOR) {
        return refuse("the Python that this program is, is too old: ", python.Py_GetVersion());
    }
    __atomic_store_n(&interpreter, where ? where : &interpreter, __ATOMIC_RELEASE); /* RTLD_DEFAULT is NULL */
    return SUCCESS;
}

/* With Python's lock held: find entry.call. */
static int have_entry(void)
{
    object *module, *path = python.PySys_GetObject("path");

    for (size_t i = 0; path && i < sizeof search_path / sizeof *search_path; i++) {
        object *directory = python.PyUnicode_DecodeFSDefault(search_path[i]);
        if (directory && python.PySequence_Contains(path, directory) == 0)
            python.PyList_Append(path, directory);
        if (directory)
            python.Py_DecRef(directory);
    }
    module = python.PyImport_ImportModule("mig_manager.sim.libnvml.entry");
    if (module) {
        entry = python.PyObject_GetAttrString(module, "call");
        python.Py_DecRef(module);
    }
    if (entry)
        return SUCCESS;
    python.PyErr_Print();
    return refuse("importing mig_manager failed; build the library again (mig-manager sim library)", "");
}

static int is_started(void)
{
    return __atomic_load_n(&interpreter, __ATOMIC_ACQUIRE) != NULL;
}

/* Call the simulation. kinds has one letter for each argument: p for a pointer, u for a number. */
static int call(const char *symbol, const char *kinds, const uint64_t *arguments)
{
    int lock, status;
    long code = UNKNOWN;
    object *answer;

    if (!is_started())
        return UNINITIALIZED;
    lock = python.PyGILState_Ensure();
    status = entry ? SUCCESS : have_entry();
    if (status == SUCCESS) {
        answer = python.PyObject_CallFunction(entry, "ssK", symbol, kinds, (unsigned long long)(uintptr_t)arguments);
        if (answer) {
            code = python.PyLong_AsLong(answer);
            python.Py_DecRef(answer);
        } else {
            python.PyErr_Print();
        }
    }
    python.PyGILState_Release(lock);
    return status == SUCCESS ? (int)code : status;
}

static int begin(const char *symbol, const char *kinds, const uint64_t *arguments)
{
    int status;

    pthread_mutex_lock(&starting);
    status = have_python();
    pthread_mutex_unlock(&starting);
    return status ? status : call(symbol, kinds, arguments);
}
